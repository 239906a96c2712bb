-- At every tick, every rank (metadata server) above the average load sends load to all ranks below the average.
--
-- For: experiments that show what it costs to move load all the time.
-- Not for: production. Mantle's authors measured 60 times as many forwarded requests as with
-- `adaptable_aggressive.lua`, and less throughput.
-- Source: Mantle (SC'15), listing 4, the bottom of figure 10.

metaload = "IWR"

mdsload = [=[MDSs[i]["all"]]=]

when = [[
  if MDSs[whoami]["load"] > total/#MDSs then
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
