-- The built-in balancer of CephFS in its hybrid mode. The load of a rank (metadata server) is the load of its
-- units plus its requests and its queue. (A unit is what can move, such as a directory.)
--
-- For: a comparison with other policies, and as a start for your own. If a policy leaves out a hook, nacre uses
-- the hook of this one.
-- Not for: few units of very different load. Each rank decides by itself, from heartbeats that are a tick old, so
-- units move more often than they should. Not for ranks with many cheap requests: the load of a rank counts
-- requests, the load of a unit does not, so too many units move.
-- Source: Mantle (SC'15), table 1.

metaload = "IRD + 2*IWR + READDIR + 2*FETCH + 4*STORE"

mdsload = [=[0.8*MDSs[i]["auth"] + 0.2*MDSs[i]["all"] + MDSs[i]["req"] + 10*MDSs[i]["q"]]=]

when = [[if MDSs[whoami]["load"] > total/#MDSs then]]

-- The ranks furthest above the average send to the ranks furthest below it.
where = [==[
  local average = total / #MDSs
  local exporters, importers = {}, {}
  for i = 1, #MDSs do
    local distance = MDSs[i]["load"] - average
    if distance > 0 then
      exporters[#exporters + 1] = { rank = i, left = distance }
    elseif distance < 0 then
      importers[#importers + 1] = { rank = i, left = -distance }
    end
  end
  local function is_larger(a, b)
    if a.left ~= b.left then return a.left > b.left end
    return a.rank < b.rank
  end
  table.sort(exporters, is_larger)
  table.sort(importers, is_larger)
  local from, to = 1, 1
  while exporters[from] and importers[to] do
    local amount = math.min(exporters[from].left, importers[to].left)
    -- Loads are measured with noise, so only 0.8 of the distance is sent (mds_bal_need_min).
    if exporters[from].rank == whoami and amount >= 0.01 then
      targets[importers[to].rank] = 0.8 * amount
    end
    exporters[from].left = exporters[from].left - amount
    importers[to].left = importers[to].left - amount
    if exporters[from].left <= 0 then from = from + 1 end
    if importers[to].left <= 0 then to = to + 1 end
  end
]==]

howmuch = { "big_first" }
