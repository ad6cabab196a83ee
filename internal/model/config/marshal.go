package config

import (
	"bytes"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast/holdfast/internal/model/secret"
)

// Marshal writes a configuration as YAML that Parse reads back to an equal
// value. The output holds the passwords: keep it in files of mode 0600. The
// same configuration always gives the same bytes.
func Marshal(c *InstallConfig) ([]byte, error) {
	var b bytes.Buffer
	enc := yaml.NewEncoder(&b)
	enc.SetIndent(2)
	if err := enc.Encode(toNode(reflect.ValueOf(c).Elem())); err != nil {
		return nil, fmt.Errorf("encode the install configuration: %w", err)
	}
	if err := enc.Close(); err != nil {
		return nil, fmt.Errorf("encode the install configuration: %w", err)
	}
	return b.Bytes(), nil
}

// toNode writes a value of the configuration's types. It uses the fields instead
// of json.Marshaler, which hides secrets.
func toNode(v reflect.Value) *yaml.Node {
	switch v.Kind() {
	case reflect.Pointer:
		return toNode(v.Elem())
	case reflect.Struct:
		return structNode(v)
	case reflect.Slice:
		n := &yaml.Node{Kind: yaml.SequenceNode}
		for i := range v.Len() {
			n.Content = append(n.Content, toNode(v.Index(i)))
		}
		return n
	case reflect.String:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: v.String(), Style: textStyle(v)}
	case reflect.Bool:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: strconv.FormatBool(v.Bool())}
	default:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: strconv.FormatInt(v.Int(), 10)}
	}
}

// oldWords are text in YAML 1.2, but something else in YAML 1.1, which most
// tools still read.
var oldWords = []string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"}

// plainWord matches what every reader of YAML takes for text, except for
// oldWords.
var plainWord = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9./:_+-]*$`)

// textStyle quotes text that another reader could take for something else. Text
// of several lines stays in lines.
func textStyle(v reflect.Value) yaml.Style {
	s := v.String()
	switch {
	case strings.Contains(s, "\n") && v.Type() != reflect.TypeFor[secret.Text]():
		return yaml.LiteralStyle
	case plainWord.MatchString(s) && !slices.Contains(oldWords, strings.ToLower(s)):
		return 0
	}
	return yaml.DoubleQuotedStyle
}

func structNode(v reflect.Value) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for i := range v.NumField() {
		name, options, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		field := v.Field(i)
		if (options == "omitempty" || options == "omitzero") && isEmpty(field) {
			continue
		}
		key := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name}
		n.Content = append(n.Content, key, toNode(field))
	}
	return n
}

func isEmpty(v reflect.Value) bool {
	if v.Kind() == reflect.Slice {
		return v.Len() == 0
	}
	return v.IsZero()
}
