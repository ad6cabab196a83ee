package arch

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"unicode"
)

const tree = "../../.."

var (
	heading      = regexp.MustCompile(`(?m)^#{1,6} +(.+?) *$`)
	markdownLink = regexp.MustCompile(`\[([^\]\[]*)\]\(([^()\s]*)\)`)
	codeBlock    = regexp.MustCompile("(?s)```.*?```")
	linkInText   = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
)

// notText lists name endings of files that hold no text of ours.
var notText = []string{".png", ".gz", ".bin", ".db", ".sum", ".zip", ".tar", ".xz"}

// allTexts returns the texts of the repository by their path from its root,
// without built files and those of other tools.
var allTexts = sync.OnceValues(func() (map[string]string, error) {
	texts := map[string]string{}
	err := filepath.WalkDir(tree, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(tree, path)
		if d.IsDir() && (d.Name() == ".git" || d.Name() == "_output" || d.Name() == "node_modules") {
			return fs.SkipDir
		}
		if !d.Type().IsRegular() || d.Name() == ".git" || isNotText(d.Name()) {
			return nil
		}
		data, err := os.ReadFile(filepath.Clean(path))
		texts[filepath.ToSlash(rel)] = string(data)
		return err
	})
	return texts, err
})

func isNotText(name string) bool {
	for _, end := range notText {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}

func repository(t *testing.T) map[string]string {
	t.Helper()
	texts, err := allTexts()
	if err != nil {
		t.Fatal(err)
	}
	return texts
}

// anchor returns the name by which a link leads to a heading.
func anchor(title string) string {
	title = linkInText.ReplaceAllString(title, "$1")
	var out strings.Builder
	for _, r := range strings.ToLower(title) {
		switch {
		case r == ' ':
			out.WriteRune('-')
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
			out.WriteRune(r)
		}
	}
	return out.String()
}

// sections returns the parts of a page by the anchors of their headings; the
// whole page has the empty anchor. A part ends at the next heading.
func sections(page string) map[string]string {
	page = codeBlock.ReplaceAllString(page, "")
	out := map[string]string{"": page}
	places := heading.FindAllStringSubmatchIndex(page, -1)
	for i, m := range places {
		end := len(page)
		if i+1 < len(places) {
			end = places[i+1][0]
		}
		out[anchor(page[m[2]:m[3]])] = page[m[1]:end]
	}
	return out
}

// deadEnd returns the reason why a link from a page leads nowhere, or nothing.
func deadEnd(texts map[string]string, from, link string) string {
	if strings.Contains(link, "://") || strings.HasPrefix(link, "mailto:") {
		return ""
	}
	file, part, _ := strings.Cut(link, "#")
	target := from
	if file != "" {
		target = filepath.ToSlash(filepath.Join(filepath.Dir(from), file))
	}
	page, isFile := texts[target]
	if !isFile {
		if _, err := os.Stat(filepath.Join(tree, filepath.FromSlash(target))); err != nil || strings.HasPrefix(target, "../..") {
			return "there is no " + target
		}
		return ""
	}
	if _, ok := sections(page)[part]; part != "" && !ok {
		return target + " has no heading #" + part
	}
	return ""
}

// TestEveryLinkOfAPageLeadsSomewhere follows the links among the documents.
func TestEveryLinkOfAPageLeadsSomewhere(t *testing.T) {
	texts := repository(t)
	links := 0
	for path, text := range texts {
		if !strings.HasSuffix(path, ".md") {
			continue
		}
		for _, m := range markdownLink.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
			links++
			if why := deadEnd(texts, path, m[2]); why != "" {
				t.Errorf("%s links to %s: %s", path, m[2], why)
			}
		}
	}
	if links < 200 {
		t.Errorf("only %d links were found", links)
	}
}

func TestALinkThatLeadsNowhereIsFound(t *testing.T) {
	texts := map[string]string{"docs/a.md": "# One\n\n## Two `things`, and a [link](b.md)\n", "docs/adr/b.md": "# B\n"}
	for link, dead := range map[string]bool{
		"a.md#two-things-and-a-link": false, "a.md#three": true, "#one": false, "adr/b.md": false, "adr/c.md": true, "../../shared/a.md": true,
		"https://example.org/x": false,
	} {
		if why := deadEnd(texts, "docs/a.md", link); (why != "") != dead {
			t.Errorf("%s: %q", link, why)
		}
	}
}
