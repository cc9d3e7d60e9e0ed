"""The design of a campaign: factors, cells, orders, placement, steps. Mostly pure."""
