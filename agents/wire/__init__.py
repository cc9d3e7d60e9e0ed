"""Messages between server and agent: shapes, columns, histograms, frames. These modules never touch the host."""
