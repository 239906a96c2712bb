-- Delay: a client keeps the capability for HOLD seconds, even if others ask for it (Malacology, section 6.1).
--
-- Clients take turns. While a client has the capability, its operations are local. The others wait up to HOLD
-- seconds for each client before them. A longer time gives more operations a second and longer waits.
--
-- Do not use it for clients that need an answer within HOLD seconds.

local HOLD = 0.25

function grant(ask)
  return { hold = HOLD }
end
