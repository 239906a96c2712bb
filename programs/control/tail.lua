-- Sends the writes of an overloaded target to other targets until the burst is over. Then the bytes are moved home.
-- This is the tail-latency application of the sRoute paper (section 5.1).
--
-- A target is overloaded while the requests of the last `recent_seconds` come `alpha` times as fast as those of the
-- last `average_seconds`, and at least `least_rate` a second. Both rates are exponentially decayed averages.
--
-- Use it for targets with bursts that last minutes, such as a nightly backup of some clients. Do not use it if all
-- targets are busy at the same time: then no target has room for the writes of another one. To limit a tenant that
-- is always too busy, use `nacre slo`.

settings = { pools = "data", alpha = 2, recent_seconds = 60, average_seconds = 3600, least_rate = 10 }

local function decayed(average, rate, seconds, window)
  return average + (rate - average) * (1 - math.exp(-seconds / window))
end

local function send_away(target, pools, is_burst)
  for pool in string.gmatch(pools, "%S+") do
    local header = "* w " .. pool .. "/*"
    if is_burst then
      insert(target, header .. " -> pool nacre.routed follow")
    else
      delete(target, header)
    end
  end
end

function control(cluster)
  local set, seconds = cluster.settings, cluster.seconds
  for _, target in cluster.targets do
    local known = cluster.state[target.name] or { recent = 0, average = 0, observed = 0 }
    if target.answers and seconds > 0 then
      known.observed += seconds
      known.recent = decayed(known.recent, target.requests, seconds, set.recent_seconds)
      -- During a burst, `average` stays what it was before. Until the whole window is known, it is the mean so far.
      if not known.is_burst then
        local window = math.min(known.observed, set.average_seconds)
        known.average = decayed(known.average, target.requests, seconds, math.max(window, seconds))
      end
      local limit = math.max(set.alpha * known.average, set.least_rate)
      local is_burst = known.recent > limit and known.observed > set.recent_seconds
      if is_burst ~= (known.is_burst or false) then
        known.is_burst = is_burst
        tell(target.name .. if is_burst then " is overloaded: its writes go elsewhere"
          else " is not overloaded any more: bytes are brought home")
      end
      send_away(target.name, set.pools, is_burst)
    end
    cluster.state[target.name] = known
  end
end
