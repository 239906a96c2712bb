-- Quota: a holder keeps the capability for a number of operations, or for a time at most (Malacology, section 6.1).
--
-- Clients take turns, as with `delay`. A busy client soon has done its operations, so others wait less than HOLD. A greater
-- number gives more operations a second and longer waits. With OPERATIONS = 1 each operation asks the authority.
--
-- Not for resources that are seldom used: their holder keeps the capability for HOLD seconds.

local OPERATIONS = 10000
local HOLD = 0.25

function grant(ask)
  return { operations = OPERATIONS, hold = HOLD }
end
