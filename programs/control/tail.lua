-- Sends the writes of an overloaded target to other targets until the burst is over. Then the bytes are moved home.
-- This is the tail-latency application of the sRoute paper (section 5.1).
--
-- A target is overloaded while its recent rate of requests is more than `alpha` times its average rate, and at least
-- `least_rate` a second. The recent rate is that of the last `recent_seconds`. The average rate is an exponentially
-- decayed one over `average_seconds`. It includes neither the recent requests nor those of a burst.
--
-- Use it for targets with bursts that last minutes, such as a nightly backup of some clients. Do not use it if all
-- targets are busy at the same time: then no target has room for the writes of another one. To limit a tenant that
-- is always too busy, use `nacre slo`.

settings = { pools = "data", alpha = 2, recent_seconds = 60, average_seconds = 3600, least_rate = 10 }

-- Adds the requests since the last call to the rates of a target. Requests are counted in periods of `recent_seconds`.
local function count(known, requests, seconds, set)
  known.elapsed += seconds
  known.requests += requests
  if known.elapsed >= set.recent_seconds then
    if known.previous and not known.is_burst then
      known.observed = math.min(known.observed + set.recent_seconds, set.average_seconds)
      known.average += (known.previous - known.average) * set.recent_seconds / known.observed
    end
    known.previous = known.requests / known.elapsed
    known.elapsed, known.requests = 0, 0
  end
end

-- The rate of the last `recent_seconds`: of the present period, and of the end of the one before.
local function recent_rate(known, window)
  local before = (known.previous or 0) * math.max(window - known.elapsed, 0)
  return (before + known.requests) / math.max(window, known.elapsed)
end

local function send_away(target, pools)
  for pool in string.gmatch(pools, "%S+") do
    insert(target, "* w " .. pool .. "/* -> pool nacre.routed follow")
  end
end

function control(cluster)
  local set, seconds = cluster.settings, cluster.seconds
  assert(set.recent_seconds > 0 and set.average_seconds >= set.recent_seconds,
    "recent_seconds must be above 0, and average_seconds not below it")
  clear()
  for _, target in cluster.targets do
    local known = cluster.state[target.name] or { average = 0, observed = 0, elapsed = 0, requests = 0 }
    if target.answers and seconds > 0 then
      count(known, target.requests * seconds, seconds, set)
      local is_known = known.is_burst or known.observed > 0
      local limit = math.max(set.alpha * known.average, set.least_rate)
      local is_burst = is_known and recent_rate(known, set.recent_seconds) > limit
      if is_burst ~= (known.is_burst or false) then
        -- The period in which a burst ends does not count for the average.
        known.is_burst, known.previous = is_burst, if is_burst then known.previous else nil
        tell(target.name .. if is_burst then " is overloaded: its writes go elsewhere"
          else " is not overloaded any more: bytes are brought home")
      end
    end
    if known.is_burst then
      send_away(target.name, set.pools)
    end
    cluster.state[target.name] = known
  end
end
