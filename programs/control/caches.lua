-- Divides the cache memory of the nodes among tenants, so that few reads miss. This is the cache-isolation application
-- of the sRoute paper (section 5.3).
--
-- Each tenant has a miss-ratio curve, which nodes estimate from its reads. The program goes along the lower hulls of
-- these curves, and gives each of `parts` equal parts of the memory where it saves most misses. Shares change only if
-- this saves at least `least_gain` of the present misses, and `least_saved` misses a second. A tenant that stops
-- reading loses its share in some 15 s. The program replaces shares that an operator has set.
--
-- Use it if a tenant that reads much displaces the blocks of others. Turn caches on first:
--
--   nacre route cache on --pool data --size 64MiB

settings = { caches = true, parts = 64, least_gain = 0.05, least_saved = 1 }

-- The misses a second of a tenant with 0, 1, … parts; the number of parts is one less than the index.
local function misses_of(tenant, part_bytes, parts)
  local misses, ratio, at = {}, 1, 1
  for count = 0, parts do
    while tenant.curve[at] and tenant.curve[at][1] <= count * part_bytes do
      ratio = tenant.curve[at][2]
      at += 1
    end
    table.insert(misses, tenant.reads * ratio)
  end
  return misses
end

-- The next corner of the lower hull after `have` parts: how many parts further it is, and the misses saved by each.
local function next_corner(misses, have, left)
  local further, saved = 0, 0
  for count = 1, left do
    local each = (misses[have + 1] - misses[have + count + 1]) / count
    if each > saved then
      further, saved = count, each
    end
  end
  return further, saved
end

local function divide(curves, parts)
  local have, left = {}, parts
  while left > 0 do
    local best, best_further, most = nil, 0, 0
    for name, misses in curves do
      local further, saved = next_corner(misses, have[name] or 0, left)
      if saved > most or (saved == most and best and saved > 0 and name < best) then
        best, best_further, most = name, further, saved
      end
    end
    if not best then
      break
    end
    have[best] = (have[best] or 0) + best_further
    left -= best_further
  end
  return have
end

local function total(curves, have)
  local sum = 0
  for name, misses in curves do
    sum += misses[math.min(have[name] or 0, #misses - 1) + 1]
  end
  return sum
end

function control(cluster)
  local cache, parts = cluster.cache, math.max(math.floor(cluster.settings.parts), 2)
  if not cache or cluster.seconds == 0 then
    return
  end
  local curves, present, part_bytes = {}, {}, math.floor(cache.bytes / parts)
  for _, tenant in cache.tenants do
    curves[tenant.name] = misses_of(tenant, part_bytes, parts)
    present[tenant.name] = math.floor((tenant.share or 0) / part_bytes)
  end
  -- One part is for the tenants without a share.
  local new = divide(curves, parts - 1)
  local before, saved = total(curves, present), total(curves, present) - total(curves, new)
  if saved >= cluster.settings.least_saved and saved > before * cluster.settings.least_gain then
    for name, count in new do
      share(name, count * part_bytes)
    end
    tell(string.format("the cache is divided anew: it saves %.0f misses a second", saved))
  end
end
