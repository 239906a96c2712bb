-- The rank that has most of the cluster's load fills up all ranks that are below the average, but only once its load is
-- more than one rank should have.
--
-- For: loads that one rank serves well most of the time, with a peak now and then.
-- Not for: peaks that are over before the load has moved.
-- Source: Mantle (SC'15), listing 4, with the minimum of the top of figure 10.

-- The load up to which a rank keeps everything. Set it to what one rank of yours serves well.
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
