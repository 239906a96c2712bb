-- Copies objects that are read often and not written to other targets, and spreads their reads over all copies. This
-- is the replica-set application of the sRoute paper (section 5.2).
--
-- An object gets copies once it was only read for `read_only_seconds`, at least `least_reads` times a second. The rule
-- names `copies` other targets, the least busy ones. The first write ends the copies at once, because the switch of the
-- object's target keeps no copy that has missed a write; this program then removes the rule.
--
-- Use it for data that is written once and then read by many. Do not use it for objects that are larger than the
-- memory of the targets, or if all targets are equally busy anyway because reads are spread over many objects.

settings = { objects = "data/*", read_only_seconds = 30, least_reads = 50, copies = 2, most_objects = 64 }

local function targets_for(cluster, object)
  local others = {}
  for _, target in cluster.targets do
    if target.answers and target.name ~= object.target then
      table.insert(others, target)
    end
  end
  table.sort(others, function(a, b) return a.requests < b.requests end)
  local names = { object.target }
  for place = 1, math.min(cluster.settings.copies, #others) do
    table.insert(names, others[place].name)
  end
  return names
end

function control(cluster)
  local set, spread, busy, count = cluster.settings, cluster.state, {}, 0
  clear()
  for _, object in cluster.objects do
    busy[object.object] = object
  end
  for name, rule in spread do
    local object = busy[name]
    -- A quarter of `least_reads` keeps the copies, so that an object near the limit is not copied again and again.
    local is_read = object and object.writes == 0 and object.reads >= set.least_reads / 4
    if is_read or cluster.seconds == 0 then
      insert(rule.switch, "* r " .. name .. " -> one " .. rule.targets .. " least-loaded")
      count += 1
    else
      spread[name] = nil
    end
  end
  for _, object in cluster.objects do
    local is_due = object.reads >= set.least_reads and object.read_only_seconds >= set.read_only_seconds
    local names = targets_for(cluster, object)
    if is_due and not spread[object.object] and count < set.most_objects and #names > 1 then
      local targets = table.concat(names, ",")
      insert(object.target, "* r " .. object.object .. " -> one " .. targets .. " least-loaded")
      spread[object.object] = { switch = object.target, targets = targets }
      count += 1
    end
  end
end
