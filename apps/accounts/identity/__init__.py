"""Sign-in with the company's OpenID Connect provider: accounts, roles and teams from its groups."""
