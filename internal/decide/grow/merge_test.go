package grow_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/decide/grow"
)

func tree(t *testing.T, text string) map[string]any {
	t.Helper()
	var out map[string]any
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestOnlyWhatDiffersIsWrittenAndWhatOthersChangedStaysUnlessItMust(t *testing.T) {
	for sentence, c := range map[string]struct {
		was, is, now string
		always       bool
		patch, left  string
	}{
		"a field that differs is set":                  {`{"a":1,"b":1}`, `{"a":2,"b":1}`, `{"a":1,"b":1}`, false, `{"a":2}`, `null`},
		"what is the same stays as others left it":     {`{"a":1,"vips":["x"]}`, `{"a":2,"vips":["x"]}`, `{"a":1,"vips":["x","y"]}`, true, `{"a":2}`, `null`},
		"what somebody changed stays":                  {`{"spec":{"a":1}}`, `{"spec":{"a":2}}`, `{"spec":{"a":3}}`, false, `null`, `["spec.a"]`},
		"unless it must":                               {`{"spec":{"a":1}}`, `{"spec":{"a":2}}`, `{"spec":{"a":3}}`, true, `{"spec":{"a":2}}`, `null`},
		"what somebody removed counts as changed":      {`{"spec":{"a":1}}`, `{"spec":{"a":2}}`, `{"spec":{}}`, false, `null`, `["spec.a"]`},
		"what is there already is not written":         {`{"a":1}`, `{"a":2}`, `{"a":2}`, true, `null`, `null`},
		"a field that is new is set":                   {`{"spec":{}}`, `{"spec":{"a":{"b":"c"}}}`, `{"spec":{}}`, false, `{"spec":{"a":{"b":"c"}}}`, `null`},
		"a field that only the old one has goes":       {`{"a":1,"b":1}`, `{"a":1}`, `{"a":1,"b":1}`, false, `{"b":null}`, `null`},
		"a list keeps the words of others":             {`{}`, `{"gates":["Two"]}`, `{"gates":["Own"]}`, true, `{"gates":["Own","Two"]}`, `null`},
		"a list loses the word that is not wanted":     {`{"gates":["Two","Old"]}`, `{"gates":["Old"]}`, `{"gates":["Own","Two","Old"]}`, true, `{"gates":["Own","Old"]}`, `null`},
		"a list that goes keeps the words of others":   {`{"gates":["Two"]}`, `{}`, `{"gates":["Own","Two"]}`, true, `{"gates":["Own"]}`, `null`},
		"a list that goes goes":                        {`{"gates":["Two"]}`, `{}`, `{"gates":["Two"]}`, true, `{"gates":null}`, `null`},
		"a part that goes leaves what others put in":   {`{"s":{"a":1,"g":["Two"]}}`, `{}`, `{"s":{"a":1,"b":2,"g":["Own","Two"]}}`, true, `{"s":{"a":null,"g":["Own"]}}`, `null`},
		"a part that goes goes":                        {`{"s":{"a":1}}`, `{}`, `{"s":{"a":1}}`, true, `{"s":null}`, `null`},
		"a list that has the word is not written":      {`{}`, `{"gates":["Two"]}`, `{"gates":["Own","Two"]}`, true, `null`, `null`},
		"a list of objects becomes the wanted one":     {`{"v":[{"a":1}]}`, `{"v":[{"a":2}]}`, `{"v":[{"a":3}]}`, true, `{"v":[{"a":2}]}`, `null`},
		"an object that is empty gets what is new":     {`{}`, `{"spec":{"a":1}}`, `{}`, false, `{"spec":{"a":1}}`, `null`},
		"what two renderings have alike is not judged": {`{"a":{"b":1}}`, `{"a":{"b":1}}`, `{}`, true, `null`, `null`},
	} {
		p := grow.Merge(tree(t, c.was), tree(t, c.is), tree(t, c.now), c.always)
		patch, err := json.Marshal(p.Fields)
		if err != nil {
			t.Fatal(err)
		}
		left, err := json.Marshal(p.Left)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{c.patch, c.left}, []string{string(patch), string(left)}); diff != "" {
			t.Errorf("%s: %s", sentence, diff)
		}
	}
}

func TestAListThatIsReplacedKeepsNoWordOfOthers(t *testing.T) {
	for sentence, c := range map[string]struct{ was, is, now, patch string }{
		"a list that differs becomes the new one":  {`{"vips":["a"]}`, `{"vips":["b"]}`, `{"vips":["a","a2"]}`, `{"vips":["b"]}`},
		"one that is there already stays":          {`{"vips":["a"]}`, `{"vips":["b"]}`, `{"vips":["b"]}`, `null`},
		"what is the same stays as others left it": {`{"a":1,"gates":["x"]}`, `{"a":2,"gates":["x"]}`, `{"a":1,"gates":["x","y"]}`, `{"a":2}`},
		"a part that others put in stays":          {`{"s":{"a":1}}`, `{"s":{"a":2}}`, `{"s":{"a":1,"b":3}}`, `{"s":{"a":2}}`},
	} {
		p := grow.Replace(tree(t, c.was), tree(t, c.is), tree(t, c.now))
		patch, err := json.Marshal(p.Fields)
		if err != nil {
			t.Fatal(err)
		}
		if string(patch) != c.patch || len(p.Left) > 0 {
			t.Errorf("%s: %s, left %v", sentence, patch, p.Left)
		}
	}
}
