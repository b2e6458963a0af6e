SELECT everything, destinations, scopes, events
  FROM outbox_claim_gate
