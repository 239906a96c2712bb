-- The rank (metadata server) that has more than half of the cluster's load sends load to every rank below the
-- average. It does so only if its load is greater than `minimum`, the load that one rank should serve.
--
-- For: loads that one rank serves well most of the time, with a peak now and then.
-- Not for: peaks that end before the load has moved.
-- Source: Mantle (SC'15), listing 4, with the minimum of the top of figure 10.

-- Up to this load a rank sends nothing. Set it to the load that one of your ranks serves well.
minimum = 1000

metaload = "IWR"

mdsload = [=[MDSs[i]["all"]]=]

when = [[
  local most = 0
  for i = 1, #MDSs do
    most = Max(MDSs[i]["load"], most)
  end
  local myLoad = MDSs[whoami]["load"]
  if myLoad > minimum and myLoad > total/2 and myLoad >= most then
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
