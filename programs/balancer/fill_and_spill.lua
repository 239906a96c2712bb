-- A rank (metadata server) keeps its load until its node is overloaded. Then it sends a quarter of its load to
-- the next rank, and waits to see whether that was enough.
--
-- For: a load that should stay on as few ranks as can serve it, because locality saves forwarded requests.
-- Not for: nodes that other services share, and loads that come and go within a few ticks.
-- Source: Mantle (SC'15), listing 3, and section 5.1.2 for the numbers. Two additions: the state is 0 before it
-- is first written, and the last rank sends nothing.

-- CPU use in percent from which on a node is overloaded. In Mantle three clients caused it.
cpu_limit = 48
-- Ticks to wait after each migration.
wait_ticks = 2
-- The part of its load that a rank sends: 1/4 was best in Mantle, 1/10 too little.
divisor = 4

metaload = "IRD + IWR"

mdsload = [=[MDSs[i]["all"]]=]

when = [[
  local wait = RDState() or 0
  local go = 0
  if MDSs[whoami]["cpu"] > cpu_limit then
    if wait > 0 then WRState(wait-1)
    else WRState(wait_ticks); go = 1 end
  else WRState(wait_ticks) end
  if go == 1 and whoami < #MDSs then
]]

where = [[targets[whoami+1] = MDSs[whoami]["load"]/divisor]]

howmuch = { "small_first" }
