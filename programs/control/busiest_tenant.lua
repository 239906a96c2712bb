-- Gives the writes of the busiest tenant a target of their own, `refuge`, while that tenant writes more than `share`
-- of all that its target writes. The other tenants of the target then wait behind fewer requests.
--
-- Use it if one tenant at a time disturbs the others and one target is kept free for it. Do not use it to promise a
-- latency: `nacre slo` does that, and it limits the tenant instead of moving it. Set the name of your own target.

settings = { pool = "data", refuge = "storage.0", share = 0.5, least_writes = 100 }

function control(cluster)
  local set, moved = cluster.settings, cluster.state
  clear()
  for _, target in cluster.targets do
    local first = target.tenants[1]
    local is_busy = first and first.writes >= math.max(set.least_writes, set.share * target.writes)
    local tenant = if is_busy and target.name ~= set.refuge then first.name else nil
    if cluster.seconds == 0 then
      tenant = moved[target.name]
    elseif tenant and moved[target.name] ~= tenant then
      tell(tenant .. " writes most of what " .. target.name .. " writes: it goes to " .. set.refuge)
    end
    moved[target.name] = tenant
    if tenant then
      insert(target.name, "tenant:" .. tenant .. " w " .. set.pool .. "/* -> target " .. set.refuge .. " follow")
    end
  end
end
