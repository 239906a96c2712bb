-- The built-in balancer of CephFS in its workload mode. It compares ranks (metadata servers) by the requests that
-- they serve and the requests that wait.
--
-- For: requests that all cost about the same; and for a comparison with other policies.
-- Not for: ranks whose requests differ much in cost, as listings and reads do.
-- Source: Mantle (SC'15), table 1; Malacology (EuroSys'17), section "Balancing modes".

metaload = "IRD + 2*IWR + READDIR + 2*FETCH + 4*STORE"

mdsload = [=[MDSs[i]["req"] + 10*MDSs[i]["q"]]=]

when = [[if MDSs[whoami]["load"] > total/#MDSs then]]

-- The ranks furthest above the average send to the ranks furthest below it.
where = [==[
  local average = total / #MDSs
  -- Ranks are compared by requests, but targets are sums of unit loads.
  local unit_load = authmetaload / MDSs[whoami]["load"]
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
      targets[importers[to].rank] = 0.8 * amount * unit_load
    end
    exporters[from].left = exporters[from].left - amount
    importers[to].left = importers[to].left - amount
    if exporters[from].left <= 0 then from = from + 1 end
    if importers[to].left <= 0 then to = to + 1 end
  end
]==]

howmuch = { "big_first" }
