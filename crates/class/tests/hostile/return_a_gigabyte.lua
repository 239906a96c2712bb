-- expect: exhausted
function h(input, output)
	local part = ('x'):rep(1024 * 1024)
	for i = 1, 1024 do output:append(part) end
end
objclass.register(h)
