package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/holdfast/holdfast/internal/model/secret"
)

// maxNodes bounds the work for one document: with aliases a small file can stand
// for a huge value.
const maxNodes = 200_000

// decoder fills a struct from a YAML document. It reports every mistake with
// its field path, and never quotes a value: any of them may be a secret in
// the wrong place.
type decoder struct {
	errs field.ErrorList
	// broken lists the paths of values that could not be read. Rules must conclude
	// nothing from what stands there.
	broken []string
	nodes  int
	// what names the document in texts about the whole document.
	what string
}

// decode reads an install configuration into out, a pointer to a struct.
func decode(data []byte, out any) *decoder { return decodeAs("install configuration", data, out) }

// decodeAs reads one YAML document into out, a pointer to a struct.
func decodeAs(what string, data []byte, out any) *decoder {
	d := &decoder{what: what}
	root, err := parseDocument(what, data)
	if err != nil {
		d.errs = append(d.errs, err)
		d.broken = append(d.broken, "")
		return d
	}
	d.value(root, reflect.ValueOf(out).Elem(), nil)
	return d
}

// parseDocument returns the root of the only document in data.
func parseDocument(what string, data []byte) (*yaml.Node, *field.Error) {
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	switch err := dec.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return nil, documentError("is empty")
	case err != nil:
		return nil, documentError("is not YAML: " + syntaxError(err))
	}
	switch err := dec.Decode(&more); {
	case err == nil:
		return nil, documentError("holds more than one YAML document: give one " + what)
	case !errors.Is(err, io.EOF):
		return nil, documentError("is not YAML: " + syntaxError(err))
	}
	return doc.Content[0], nil
}

// documentError reports a mistake of the file as a whole.
func documentError(detail string) *field.Error {
	return invalid(field.NewPath("(file)"), detail)
}

// invalid returns a field.Invalid that does not show the value.
func invalid(path *field.Path, detail string) *field.Error {
	return field.Invalid(path, field.OmitValueType{}, detail)
}

var (
	quoted   = regexp.MustCompile("(?s)'[^']{2,}'|\"[^\"]{2,}\"|`[^`]{2,}`")
	position = regexp.MustCompile(`^(near )?line \d+: `)
)

// syntaxError returns the parser's reason without any text of the document. The
// parser's line may be the one before.
func syntaxError(err error) string {
	s := strings.TrimPrefix(err.Error(), "yaml: ")
	if position.MatchString(s) {
		s = "near " + s
	}
	where := position.FindString(s)
	switch {
	case strings.Contains(s, "unknown anchor"):
		return where + "a value starts with *: put it in quotes"
	case strings.Contains(s, "tag"):
		return where + "a value starts with !: put it in quotes"
	}
	return quoted.ReplaceAllString(s, "...")
}

// value reads one node into out.
func (d *decoder) value(n *yaml.Node, out reflect.Value, path *field.Path) {
	if d.nodes++; d.nodes > maxNodes {
		d.tooLarge()
		return
	}
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" {
		return
	}
	switch out.Kind() {
	case reflect.Pointer:
		out.Set(reflect.New(out.Type().Elem()))
		d.value(n, out.Elem(), path)
	case reflect.Struct:
		d.mapping(n, out, path)
	case reflect.Slice:
		d.sequence(n, out, path)
	default:
		d.scalar(n, out, path)
	}
}

func (d *decoder) tooLarge() {
	if !slices.Contains(d.broken, "") {
		d.errs = append(d.errs, documentError("is too large for one "+d.what))
		d.broken = append(d.broken, "")
	}
}

// wrongType records that the node at path has the wrong type.
func (d *decoder) wrongType(path *field.Path, detail string) {
	if path == nil {
		path = field.NewPath("(file)")
		d.broken = append(d.broken, "")
	}
	d.broken = append(d.broken, path.String())
	d.errs = append(d.errs, field.TypeInvalid(path, field.OmitValueType{}, detail))
}

func (d *decoder) sequence(n *yaml.Node, out reflect.Value, path *field.Path) {
	if n.Kind != yaml.SequenceNode {
		d.wrongType(path, "must be a list")
		return
	}
	list := reflect.MakeSlice(out.Type(), len(n.Content), len(n.Content))
	for i, item := range n.Content {
		d.value(item, list.Index(i), path.Index(i))
	}
	out.Set(list)
}

// wholeNumber excludes forms that YAML versions read differently: 010 and 1_000.
var wholeNumber = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)

func (d *decoder) scalar(n *yaml.Node, out reflect.Value, path *field.Path) {
	switch out.Kind() {
	case reflect.String:
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" {
			d.wrongType(path, "must be text: put the value in quotes")
			return
		}
		out.SetString(n.Value)
	case reflect.Bool:
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" {
			d.wrongType(path, "must be true or false")
			return
		}
		out.SetBool(strings.EqualFold(n.Value, "true"))
	default:
		i, err := strconv.ParseInt(n.Value, 10, out.Type().Bits())
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!int" || err != nil || !wholeNumber.MatchString(n.Value) {
			d.wrongType(path, "must be a whole number")
			return
		}
		out.SetInt(i)
	}
}

func (d *decoder) mapping(n *yaml.Node, out reflect.Value, path *field.Path) {
	if n.Kind != yaml.MappingNode {
		d.wrongType(path, "must be a mapping of fields")
		return
	}
	fields := structFields(out.Type())
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, val := n.Content[i], n.Content[i+1]
		name := keyName(key)
		index, known := fields[name]
		if !known && isBareWord(val) && holdsSecret(out.Type()) {
			name = hiddenKey(key)
		}
		if !known {
			d.unknown(path, name, out.Type())
			continue
		}
		// Two spellings of one field count as one.
		canonical := jsonName(out.Type().Field(index))
		if first, again := lines[canonical]; again {
			d.errs = append(d.errs, field.Forbidden(path.Child(name),
				fmt.Sprintf("the field is given twice, on lines %d and %d", first, key.Line)))
			continue
		}
		lines[canonical] = key.Line
		d.value(val, out.Field(index), path.Child(canonical))
		// `none:` without a value also chooses the platform.
		if target := out.Field(index); out.Type() == reflect.TypeFor[Platform]() && target.IsNil() {
			target.Set(reflect.New(target.Type().Elem()))
		}
	}
}

var plainKey = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_-]{0,40}$`)

// keyName returns the text of a key, or only its line if the key does not look
// like the name of a field: {password:x} without a space is one long key.
func keyName(key *yaml.Node) string {
	if key.Kind == yaml.ScalarNode && plainKey.MatchString(key.Value) {
		return key.Value
	}
	return hiddenKey(key)
}

func hiddenKey(key *yaml.Node) string { return fmt.Sprintf("(unknown key on line %d)", key.Line) }

// isBareWord reports whether a key has no value. Beside a password, such a key
// may be the password itself.
func isBareWord(val *yaml.Node) bool {
	return val.Kind == yaml.ScalarNode && val.Value == "" && val.ShortTag() == "!!null"
}

func holdsSecret(t reflect.Type) bool {
	for f := range t.Fields() {
		if f.Type == reflect.TypeFor[secret.Text]() {
			return true
		}
	}
	return false
}

// structFields maps the names of a struct's fields to their indexes.
func structFields(t reflect.Type) map[string]int {
	fields := make(map[string]int, t.NumField())
	for i := range t.NumField() {
		fields[jsonName(t.Field(i))] = i
	}
	if i, ok := fields["hostName"]; ok {
		fields["hostname"] = i
	}
	return fields
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

func (d *decoder) unknown(path *field.Path, name string, t reflect.Type) {
	d.errs = append(d.errs, unknownField(path, name, t))
	if meant := meantField(name, t); meant != "" {
		// The value of the field that was meant is unknown: nothing follows from its
		// absence.
		d.broken = append(d.broken, path.Child(meant).String())
	}
	if t == reflect.TypeFor[Platform]() {
		// A platform was chosen, although a wrong one.
		d.broken = append(d.broken, path.Child(name).String())
	}
}

// unknownField reports an unknown field and names the fields that are possible
// there.
func unknownField(path *field.Path, name string, t reflect.Type) *field.Error {
	if t == reflect.TypeFor[Platform]() {
		return field.Forbidden(path.Child(name), "the platform is not supported; supported are none and baremetal")
	}
	if path == nil && name == "arbiter" {
		return field.Forbidden(field.NewPath(name),
			"an arbiter host is not supported; two control planes take controlPlane.fencing, or use three control planes")
	}
	var names []string
	for f := range t.Fields() {
		names = append(names, jsonName(f))
	}
	slices.Sort(names)
	detail := "unknown field; there are no fields here"
	if meant := meantField(name, t); meant != "" {
		detail = "unknown field; did you mean " + meant
		if f, ok := t.FieldByNameFunc(func(n string) bool { return strings.EqualFold(n, meant) }); ok && f.Type.Kind() == reflect.Slice {
			detail += ", a list"
		}
		detail += "?"
	} else if len(names) > 0 {
		detail = "unknown field; known are " + strings.Join(names, ", ")
	}
	return field.Forbidden(path.Child(name), detail)
}

// meantField returns the field that the author of name most likely meant: it
// differs in capitals or in singular and plural, as apiVIP of older installers
// does.
func meantField(name string, t reflect.Type) string {
	plain := func(s string) string { return strings.TrimSuffix(strings.ToLower(s), "s") }
	for f := range t.Fields() {
		if known := jsonName(f); plain(known) == plain(name) {
			return known
		}
	}
	return ""
}
