# A host to measure: sshd, Python, PostgreSQL 17 with pgbench, and the account of README.md, "Add a real host".
FROM debian:trixie-slim
RUN apt-get update -q \
    && apt-get install -y -q --no-install-recommends postgresql-common \
    && sed -i 's/^#*create_main_cluster.*/create_main_cluster = false/' /etc/postgresql-common/createcluster.conf \
    && apt-get install -y -q --no-install-recommends openssh-server python3 postgresql procps \
    && rm -rf /var/lib/apt/lists/* /var/cache/apt/archives/*.deb /etc/ssh/ssh_host_*_key* \
    && useradd --create-home --shell /bin/bash proving \
    && install -d -o proving -g proving /var/lib/proving-ground \
    && install -d -o proving -g proving -m 0700 /home/proving/.ssh \
    && mkdir -p /run/sshd
CMD ["/bin/sh", "-c", "ssh-keygen -A && exec /usr/sbin/sshd -D -e"]
