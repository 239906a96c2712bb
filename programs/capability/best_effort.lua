-- Best effort: what clients get without a program, too (CephFS's capabilities work so).
--
-- A client that is alone gets the capability and gives it up as soon as another needs it. Then all are served by round
-- trips until one has been alone for a second. Clients that only read are alone together.
--
-- For resources with one busy client at a time. With several busy clients each operation is a round trip: see `quota`.

local ALONE = 1

function grant(ask)
  return (ask.waiting == 0 or ask.wish == "shared") and ask.alone >= ALONE
end
