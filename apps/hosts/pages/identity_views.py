"""SSH keys: the page that lists and creates them, and their certificates."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import path, reverse
from django.views.decorators.http import require_POST

from apps.accounts.models import Role
from apps.accounts.services import user_of
from apps.hosts import services
from apps.hosts.access import keys
from apps.hosts.models import Identity
from apps.hosts.pages.forms import IdentityForm
from apps.web.pages import attempt, blame, needs, page
from common.errors import ProvingError


@needs(Role.ADMIN)
def identity_add(request: HttpRequest) -> HttpResponse:
    form = IdentityForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            identity = services.create_identity(by=user_of(request), **form.cleaned_data)
        except ProvingError as error:
            blame(form, error)
        else:
            messages.success(request, f"SSH key {identity} is created. Add its public key, below, to your hosts.")
            return redirect(f"{reverse('host_add')}?identity={identity.pk}")
    identities = list(Identity.objects.all())
    context: dict[str, Any] = {
        "rows": [(identity, keys.state(identity)) for identity in identities],
        "key_warnings": keys.warnings(identities),
        "secret_sources": str(settings.SECRET_SOURCES),
    }
    return page(request, "hosts/identity_form.html", context, form)


@require_POST
@needs(Role.ADMIN)
def identity_certificate(request: HttpRequest, pk: int) -> HttpResponse:
    identity, reference = get_object_or_404(Identity, pk=pk), request.POST.get("certificate_from", "").strip()
    done = f"{identity} logs in {'with the certificate' if reference else 'without a certificate'}."
    attempt(request, lambda: services.change_certificate(identity, reference, by=user_of(request)), done)
    return redirect("identity_add")


urlpatterns = [
    path("hosts/keys/add/", identity_add, name="identity_add"),
    path("hosts/keys/<int:pk>/certificate/", identity_certificate, name="identity_certificate"),
]
