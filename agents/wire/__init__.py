"""What travels between server and agent: shapes, columns, histograms, frames. No module here touches the host."""
