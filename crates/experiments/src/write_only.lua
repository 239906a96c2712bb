-- Appends an entry and keeps nothing of it: what calling a class costs.
function append(input)
  objclass.append(input)
end

objclass.register(append)
