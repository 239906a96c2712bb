-- expect: exhausted
-- Memory the VM's own allocator does not see.
function h()
	local kept, part = {}, ('x'):rep(100000)
	while true do
		local bl = bufferlist.new()
		bl:append(part)
		kept[#kept + 1] = bl
	end
end
objclass.register(h)
