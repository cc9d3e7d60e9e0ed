"""What every page and every endpoint shares: roles, errors, paging, limits, conditional and repeated requests."""
