-- The rank that has most of the cluster's load fills up all ranks that are below the average.
--
-- For: loads that change, as a compilation does, on ranks that the load needs.
-- Not for: a load that one rank can serve. See `adaptable_conservative.lua`.
-- Source: Mantle (SC'15), listing 4, the middle of figure 10. Only one rank at a time can have more than half.

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
