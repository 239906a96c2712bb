-- Chooses a target for each volume when its first byte is written. The volume `data/vm7` has the objects `data/vm7.1`,
-- `data/vm7.2` and so on. The first write waits for the controller, which knows the load of all targets: the one with
-- the smallest part of the requests and of the volumes gets the volume. Later writes of the volume go there at once.
--
-- Use it if volumes are written a lot soon after they were made, and if some targets are busier than others. Do not use
-- it for more than `most_volumes` volumes, or for fewer if their names are long: the writes of further ones stay home. A
-- volume keeps its target.

settings = { prefix = "data/vm", separator = ".", most_volumes = 400 }

-- The rules of an application have 64 KiB at most. A rule has some 60 bytes besides the name of its volume.
local MOST_BYTES, RULE_BYTES = 56 * 1024, 60

-- What the rule about a volume matches: all objects of the volume, or one object without a separator in its name.
local function volume_of(object, set)
  local last = select(2, string.find(object, set.separator, #set.prefix + 1, true))
  return if last then string.sub(object, 1, last) .. "*" else object
end

local function least_loaded(targets, volumes)
  local requests, best, least = 1, nil, math.huge
  local count, all = {}, 1
  for _, target in volumes do
    count[target] = (count[target] or 0) + 1
    all += 1
  end
  for _, target in targets do
    requests += target.requests
  end
  for _, target in targets do
    local load = target.requests / requests + (count[target.name] or 0) / all
    if target.answers and load < least then
      best, least = target.name, load
    end
  end
  return best
end

function control(cluster)
  local set, volumes, count, bytes = cluster.settings, cluster.state, 0, 0
  assert(#set.separator > 0, "separator must not be empty")
  for volume in volumes do
    if string.sub(volume, 1, #set.prefix) == set.prefix then
      count += 1
      bytes += RULE_BYTES + #volume
    else
      volumes[volume] = nil
    end
  end
  local function has_room()
    return count < set.most_volumes and bytes < MOST_BYTES
  end
  for _, io in cluster.waiting do
    local volume = volume_of(io.object, set)
    local target = least_loaded(cluster.targets, volumes)
    if target and not volumes[volume] and has_room() then
      volumes[volume] = target
      count += 1
      bytes += RULE_BYTES + #volume
    end
  end
  clear()
  for volume, target in volumes do
    insert("every", "* w " .. volume .. " -> target " .. target .. " follow")
  end
  -- The rule of a volume has a longer prefix, so it decides before this one.
  local rest = if has_room() then "controller header" else "home"
  insert("every", "* w " .. set.prefix .. "* -> " .. rest)
end
