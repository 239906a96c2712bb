-- The rank (metadata server) that has more than half of the cluster's load sends load to every rank below the
-- average, until each of them has the average.
--
-- For: loads that change, such as a compilation, and that need all ranks.
-- Not for: a load that one rank can serve. For that see `adaptable_conservative.lua`.
-- Source: Mantle (SC'15), listing 4, the middle of figure 10. At most one rank can have more than half of the
-- load.

metaload = "IWR"

mdsload = [=[MDSs[i]["all"]]=]

when = [[
  local most = 0
  for i = 1, #MDSs do
    most = Max(MDSs[i]["load"], most)
  end
  local myLoad = MDSs[whoami]["load"]
  if myLoad > total/2 and myLoad >= most then
]]

where = [[
  local targetLoad = total/#MDSs
  for i = 1, #MDSs do
    if i ~= whoami and MDSs[i]["load"] < targetLoad then
      targets[i] = targetLoad - MDSs[i]["load"]
    end
  end
]]

howmuch = { "half", "small", "big", "big_small" }
