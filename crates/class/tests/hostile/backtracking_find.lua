-- expect: exhausted
function h() return (string.find(('a'):rep(100000), ('.-'):rep(30) .. 'b')) end
objclass.register(h)
