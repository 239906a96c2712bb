-- Never: no client gets the capability, so every operation is a round trip to the authority.
--
-- Latency is the most predictable, because no client ever waits for another client to give up the capability. Use
-- it for resources that many clients use at once, and as the baseline for other programs.

function grant(ask)
  return false
end
