-- expect: exhausted
function h()
	local s = 'x'
	while true do s = s .. s end
end
objclass.register(h)
