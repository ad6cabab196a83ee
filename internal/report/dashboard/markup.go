package dashboard

import (
	"bytes"

	"golang.org/x/net/html"
)

// The page is made of elements instead of html/template. A program that can
// execute a template may call any method by its name, so the linker would keep
// every method of every type of Kubernetes in holdfast (docs/adr/0041). Text and
// attributes are escaped when the elements are rendered.

// part adds something to an element.
type part func(parent *html.Node)

func text(s string) part {
	return func(parent *html.Node) { parent.AppendChild(&html.Node{Type: html.TextNode, Data: s}) }
}

// attr is an attribute. An attribute without a value gets an empty one.
func attr(key, value string) part {
	return func(parent *html.Node) { parent.Attr = append(parent.Attr, html.Attribute{Key: key, Val: value}) }
}

func class(names string) part { return attr("class", names) }

func el(name string, parts ...part) part {
	return func(parent *html.Node) {
		n := &html.Node{Type: html.ElementNode, Data: name}
		all(parts...)(n)
		parent.AppendChild(n)
	}
}

func all(parts ...part) part {
	return func(parent *html.Node) {
		for _, p := range parts {
			p(parent)
		}
	}
}

func when(is bool, parts ...part) part {
	if !is {
		return all()
	}
	return all(parts...)
}

func each[T any](list []T, f func(T) part) part {
	return func(parent *html.Node) {
		for _, v := range list {
			f(v)(parent)
		}
	}
}

func rendered(p part) ([]byte, error) {
	root := &html.Node{Type: html.DocumentNode}
	p(root)
	var out bytes.Buffer
	err := html.Render(&out, root)
	return out.Bytes(), err
}
