-- Quota: a client keeps the capability for a number of operations, or at most for HOLD seconds (Malacology,
-- section 6.1).
--
-- Clients take turns, as with `delay`. A busy client soon uses up its operations, so others wait less than HOLD.
-- A greater number gives more operations a second and longer waits. With OPERATIONS = 1 each operation asks the
-- authority.
--
-- Do not use it for rarely used resources, because a client then keeps the capability for all of HOLD.

local OPERATIONS = 10000
local HOLD = 0.25

function grant(ask)
  return { operations = OPERATIONS, hold = HOLD }
end
