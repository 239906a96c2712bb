-- Never: every operation is a round trip to the authority.
--
-- Its latency is the most predictable: nobody ever waits for another client. For resources that many clients use at once,
-- and to compare the other programs with.

function grant(ask)
  return false
end
