-- Limits the rate of IO: an example of a waypoint that holds IO.
--
-- When not to use it: to keep promised latencies, or to divide a target among tenants. `nacre slo`
-- does that, and knows how much a target can do.
--
-- The rule that names it may be about any IO, for instance that of one tenant:
--   tenant:backup rw data/* -> waypoint limit
--
-- An IO costs one unit, and one more for each 64 KiB. Small reads go first, then small writes, then
-- all others, because a person may wait for the small ones. Each node has a queue of its own: with
-- three nodes, three times the rate is possible.

-- Units a second of one node, units at once, and the most IOs that wait. A full queue refuses IO.
limit = { rate = 200, burst = 50, queue = 1000 }

local SMALL = 64 * 1024

function price(io)
  local cost = 1 + io.bytes // (64 * 1024)
  if io.bytes > SMALL then
    return cost, 2
  end
  return cost, if io.operation == "read" then 0 else 1
end
