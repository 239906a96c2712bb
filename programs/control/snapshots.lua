-- Makes a snapshot of all objects of a prefix every `minutes`, and keeps the last `keep` of them. A snapshot costs
-- nothing until an object changes: then the home of the object first keeps its former state, by copy on write or, on
-- Ceph, as a whole copy.
-- `nacre object get OBJECT --at NAME` reads an object as it was. A name has the seconds since 1970, such as
-- `auto-1764512100`; the cluster log has all of them.
--
-- Use it to get back what users or programs have destroyed. It is no backup: the snapshots are on the disks of the
-- objects. The snapshots of different objects are not made at exactly the same moment.

settings = { prefix = "data/", name = "auto", minutes = 60, keep = 8 }

function control(cluster)
  local set, state = cluster.settings, cluster.state
  assert(set.minutes >= 1, "minutes must be 1 or more")
  assert(set.keep >= 1 and set.keep <= 32, "keep must be from 1 to 32")
  local names = state.names or {}
  if not state.made or cluster.now >= state.made + 60 * set.minutes then
    state.made = cluster.now
    local name = set.name .. "-" .. string.format("%d", math.floor(cluster.now))
    table.insert(names, name)
    tell("the snapshot " .. name .. " of " .. set.prefix .. "* is kept from now on")
  end
  while #names > set.keep do
    table.remove(names, 1)
  end
  state.names = names
  clear()
  insert("every", "* * " .. set.prefix .. "* -> snapshots " .. table.concat(names, ","))
end
