-- Best effort: the policy of CephFS's capabilities, which resources without a program also have.
--
-- A client that is alone gets the capability, and gives it up as soon as another client needs it. After that no
-- client has the capability, and every operation is a round trip to the authority, until one client has been alone
-- for a second. Several clients that only read count as one.
--
-- Use it for resources with one busy client at a time. With several busy clients each operation is a round trip;
-- use `quota` for those.

local ALONE = 1

function grant(ask)
  return (ask.waiting == 0 or ask.wish == "shared") and ask.alone >= ALONE
end
