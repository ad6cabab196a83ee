package crmmon

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
)

// The bounds of the text. That of two hosts has 10 kB.
const (
	// MaxBytes bounds the text.
	MaxBytes     = 10 << 20
	maxDepth     = 16
	maxElements  = 50_000
	maxAttribute = 32 << 10
)

// element is one element with everything inside it except text.
type element struct {
	name     string
	settings map[string]string
	inner    []*element
}

// parseXML reads a whole text. It refuses constructs that no writer of a status
// uses, above all a document type, because its entities can grow without limit.
func parseXML(text []byte) (*element, error) {
	if len(text) > MaxBytes {
		return nil, fmt.Errorf("it has %d bytes, more than %d", len(text), MaxBytes)
	}
	b := builder{decoder: xml.NewDecoder(bytes.NewReader(text))}
	for {
		token, err := b.decoder.Token()
		if errors.Is(err, io.EOF) {
			return b.whole()
		}
		if err != nil {
			return nil, err
		}
		if err := b.take(token); err != nil {
			line, _ := b.decoder.InputPos()
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
	}
}

// builder makes elements from tokens.
type builder struct {
	decoder *xml.Decoder
	root    *element
	open    []*element
	count   int
}

func (b *builder) take(token xml.Token) error {
	switch t := token.(type) {
	case xml.StartElement:
		return b.begin(t)
	case xml.EndElement:
		b.open = b.open[:len(b.open)-1] // the decoder has matched begin and end
	case xml.Directive:
		return errors.New("a document type is not allowed")
	case xml.CharData:
		if len(b.open) == 0 && len(bytes.TrimSpace(t)) > 0 {
			return errors.New("text outside of the document")
		}
	case xml.ProcInst:
		if t.Target != "xml" {
			return fmt.Errorf("instruction %.20q is not allowed", t.Target)
		}
	}
	return nil
}

func (b *builder) begin(t xml.StartElement) error {
	b.count++
	switch {
	case len(b.open) == 0 && b.root != nil:
		return errors.New("a second document follows")
	case len(b.open) >= maxDepth:
		return fmt.Errorf("elements lie more than %d deep in each other", maxDepth)
	case b.count > maxElements:
		return fmt.Errorf("more than %d elements", maxElements)
	}
	e := &element{name: t.Name.Local, settings: make(map[string]string, len(t.Attr))}
	for _, a := range t.Attr {
		if len(a.Value) > maxAttribute {
			return fmt.Errorf("attribute %.40s has %d bytes", a.Name.Local, len(a.Value))
		}
		if _, twice := e.settings[a.Name.Local]; twice {
			return fmt.Errorf("attribute %.40s stands twice", a.Name.Local)
		}
		e.settings[a.Name.Local] = a.Value
	}
	if len(b.open) == 0 {
		b.root = e
	} else {
		parent := b.open[len(b.open)-1]
		parent.inner = append(parent.inner, e)
	}
	b.open = append(b.open, e)
	return nil
}

func (b *builder) whole() (*element, error) {
	if b.root == nil {
		return nil, errors.New("it is empty")
	}
	return b.root, nil
}

// all returns the elements of a name directly inside e.
func (e *element) all(name string) []*element {
	var out []*element
	for _, i := range e.inner {
		if i.name == name {
			out = append(out, i)
		}
	}
	return out
}

// one returns the first element of a name directly inside e, an empty one if
// there is none.
func (e *element) one(name string) *element {
	for _, i := range e.inner {
		if i.name == name {
			return i
		}
	}
	return &element{name: name}
}

// text returns the value of the first of some attributes that exists.
func (e *element) text(names ...string) string {
	for _, n := range names {
		if v, ok := e.settings[n]; ok {
			return v
		}
	}
	return ""
}

// flags reads the booleans of one element, and keeps its first error.
type flags struct {
	of  *element
	err error
}

// must reads an attribute that has to exist.
func (f *flags) must(names ...string) bool { return f.read(true, false, names) }

// may reads an attribute that some versions leave out.
func (f *flags) may(absent bool, names ...string) bool { return f.read(false, absent, names) }

func (f *flags) read(needed, absent bool, names []string) bool {
	for _, n := range names {
		switch v, ok := f.of.settings[n]; {
		case !ok:
		case v == "true":
			return true
		case v == "false":
			return false
		default:
			f.fail(fmt.Errorf("%s is %.40q, neither true nor false", n, v))
			return absent
		}
	}
	if needed {
		f.fail(fmt.Errorf("%s is missing", names[0]))
	}
	return absent
}

func (f *flags) fail(err error) {
	if f.err == nil {
		f.err = fmt.Errorf("%s %.80s: %w", f.of.name, f.of.text("name", "id"), err)
	}
}
