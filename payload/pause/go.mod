// The pause process of a release; it needs nothing but the standard library.
module github.com/holdfast/holdfast/payload/pause

go 1.26.0
