-- expect: exhausted
function h()
	while true do
		pcall(string.find, ('a'):rep(100000), ('.-'):rep(30) .. 'b')
	end
end
objclass.register(h)
