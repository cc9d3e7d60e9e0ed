"""Around all pages and endpoints: errors, keyset pages, rate limits, ETags, repeated requests, who sees what."""
