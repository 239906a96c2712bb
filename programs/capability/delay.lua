-- Delay: a holder keeps the capability for a time, whoever asks (Malacology, section 6.1).
--
-- Clients take turns. While one holds the capability its operations are local, and the others wait up to HOLD seconds for
-- each that is before them. A longer time gives more operations a second and longer waits.
--
-- Not for clients that need an answer within HOLD seconds.

local HOLD = 0.25

function grant(ask)
  return { hold = HOLD }
end
