-- expect: exhausted
function h()
	local part = bufferlist.new()
	part:append(('x'):rep(1024 * 1024))
	for i = 0, 1023 do objclass.append(part) end
end
objclass.register(h)
