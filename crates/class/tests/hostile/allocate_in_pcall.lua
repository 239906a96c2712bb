-- expect: exhausted
function h()
	local kept = {}
	while true do
		pcall(function() kept[#kept + 1] = ('x'):rep(100000) .. #kept end)
	end
end
objclass.register(h)
