-- A rank (metadata server) with load sends half of it to the next rank, as soon as the next rank has none.
--
-- For: many clients that create files in one directory (as in GIGA+), and loads that should spread at once.
-- Not for: a load that one rank can serve, because spreading it costs more than it gains. The ranks end up with
-- 1/2, 1/4, 1/8 and so on of the load; `greedy_spill_even.lua` spreads it evenly.
-- Source: Mantle (SC'15), listing 1. One addition: the last rank, which has no next one, sends nothing.

metaload = "IWR"

mdsload = [=[MDSs[i]["all"]]=]

when = [[
  if whoami < #MDSs and
     MDSs[whoami]["load"] > .01 and
     MDSs[whoami+1]["load"] < .01 then
]]

where = [[targets[whoami+1] = allmetaload/2]]

howmuch = { "half" }
