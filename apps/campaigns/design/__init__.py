"""What a campaign is asked to run: factors, cells, orders, placement, steps. Mostly pure."""
