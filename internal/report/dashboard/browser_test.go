package dashboard

import (
	"bytes"
	"context"
	"image"
	"image/color"
	"image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/standing"
)

// browser returns the path of Chromium, which hack/setup installs.
func browser(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser"} {
		if path, err := host.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("HOLDFAST_REQUIRE_TOOLS") == "1" {
		t.Fatal("no chromium: run hack/setup")
	}
	t.Skip("NOT TESTED: this needs chromium (hack/setup)")
	return ""
}

// browserTime bounds a run on a busy machine.
const browserTime = 2 * time.Minute

// run runs the browser, which may contact this machine only, and returns its
// output and its complaints.
func run(t *testing.T, url string, args ...string) (out, complaints string) {
	t.Helper()
	line := append([]string{
		"--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-sync",
		"--disable-background-networking", "--disable-component-update", "--disable-default-apps", "--disable-extensions",
		"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--hide-scrollbars", "--force-device-scale-factor=1",
		"--user-data-dir=" + t.TempDir(), "--enable-logging=stderr", "--log-level=0",
	}, append(args, url)...)
	ctx, stop := context.WithTimeout(t.Context(), browserTime)
	defer stop()
	cmd := host.Command(browser(t), line...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if _, err := host.Run(ctx, cmd); err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	var console []string
	for l := range strings.Lines(stderr.String()) {
		if strings.Contains(l, ":CONSOLE") {
			console = append(console, strings.TrimSpace(l))
		}
	}
	return stdout.String(), strings.Join(console, "\n")
}

func serve(t *testing.T, look func(context.Context) (standing.View, error)) string {
	t.Helper()
	page := New(look, "127.0.0.1")
	page.views.every = 0 // the browser's clock runs faster than ours
	s := httptest.NewServer(page.Handler())
	t.Cleanup(s.Close)
	return s.URL + "/"
}

func screenshot(t *testing.T, url, name string, args ...string) image.Image {
	t.Helper()
	img, complaints := picture(t, url, name, args...)
	if complaints != "" {
		t.Errorf("%s: the browser complains:\n%s", name, complaints)
	}
	return img
}

func picture(t *testing.T, url, name string, args ...string) (image.Image, string) {
	t.Helper()
	dir := os.Getenv("HOLDFAST_SCREENSHOTS") // kept for people who want to see them
	if dir == "" {
		dir = t.TempDir()
	}
	file := filepath.Join(dir, name+".png")
	_, complaints := run(t, url, append(args, "--screenshot="+file)...)
	data, err := os.ReadFile(file)
	must(t, err)
	img, err := png.Decode(bytes.NewReader(data))
	must(t, err)
	return img, complaints
}

// TestThePageLooksAsItShould takes a picture of each situation, wide and narrow,
// light and dark. A person has to judge the looks: HOLDFAST_SCREENSHOTS names a
// folder for the pictures.
func TestThePageLooksAsItShould(t *testing.T) {
	paper := map[string]color.RGBA{"light": {0xf5, 0xf6, 0xf4, 0xff}, "dark": {0x12, 0x16, 0x14, 0xff}}
	for _, tt := range []struct{ situation, scheme, size string }{
		{"healthy-pair", "light", "1200,1150"},
		{"peer-lost", "light", "1200,1400"},
		{"peer-lost", "dark", "1200,1400"},
		{"human-needed", "dark", "1200,1500"},
		{"three-one-lost", "light", "1200,1300"},
		{"single", "light", "800,900"},
		{"peer-lost", "light", "500,2100"},
	} {
		width, _, _ := strings.Cut(tt.size, ",")
		name := tt.situation + "-" + tt.scheme + "-" + width
		t.Run(name, func(t *testing.T) {
			args := []string{"--window-size=" + tt.size}
			if tt.scheme == "dark" {
				args = append(args, "--blink-settings=preferredColorScheme=0")
			}
			img := screenshot(t, serve(t, always(recorded(t, tt.situation))), name, args...)
			if got := color.RGBAModel.Convert(img.At(2, 2)); got != paper[tt.scheme] {
				t.Errorf("the paper is %v, want %v", got, paper[tt.scheme])
			}
			if n := colours(img); n < 20 {
				t.Errorf("the picture has %d colours: nothing is on it", n)
			}
		})
	}
}

func colours(img image.Image) int {
	seen := map[color.Color]bool{}
	b := img.Bounds()
	for y := b.Min.Y; y < b.Max.Y; y += 2 {
		for x := b.Min.X; x < b.Max.X; x += 2 {
			seen[img.At(x, y)] = true
		}
	}
	return len(seen)
}

// TestThePageIsLive shows another situation from the third reading on: the page
// must show it without being loaded again.
func TestThePageIsLive(t *testing.T) {
	var looks atomic.Int32
	before, after := recorded(t, "healthy-pair"), recorded(t, "peer-lost")
	url := serve(t, func(context.Context) (standing.View, error) {
		if looks.Add(1) < 3 {
			return before, nil
		}
		return after, nil
	})
	out, complaints := run(t, url, "--virtual-time-budget=15000", "--dump-dom")
	if !strings.Contains(out, "one more failure stops it") || !strings.Contains(out, `data-status="degraded"`) || complaints != "" {
		t.Errorf("after %d looks:\n%s\n%s", looks.Load(), out, complaints)
	}
	if !strings.Contains(out, "<title>degraded: ") {
		t.Error("the title still says what was")
	}
}

func TestAPageThatIsNotAnsweredSaysSo(t *testing.T) {
	var looks atomic.Int32
	server := httptest.NewServer(nil)
	t.Cleanup(server.Close)
	page := New(always(recorded(t, "healthy-pair")), "127.0.0.1").Handler()
	server.Config.Handler = dropping(page, &looks)
	out, _ := run(t, server.URL+"/", "--virtual-time-budget=20000", "--dump-dom")
	if !strings.Contains(out, "Not live: no answer for") {
		t.Errorf("%d looks:\n%s", looks.Load(), out)
	}
}

// TestThePageNeedsNoScript puts the page into a frame without scripts, because
// Chromium takes no picture if scripts are off altogether. In such a frame
// Chromium blocks the page's reload, and reports the attempt.
func TestThePageNeedsNoScript(t *testing.T) {
	page := New(always(recorded(t, "human-needed")), "127.0.0.1").Handler()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/frame" {
			w.Header().Set("Content-Type", "text/html")
			_, _ = w.Write([]byte(`<!doctype html><iframe sandbox="" src="/" width="1180" height="980"></iframe>`))
			return
		}
		page.ServeHTTP(unframed{w}, r)
	}))
	t.Cleanup(server.Close)
	// A busy Chromium may take the picture before the frame is painted.
	var seen int
	var complaints string
	for range 5 {
		var img image.Image
		img, complaints = picture(t, server.URL+"/frame", "no-script", "--window-size=1200,1000", "--virtual-time-budget=4000")
		if seen = colours(img); seen >= 100 {
			break
		}
	}
	for _, want := range []string{"Blocked script execution", "Refused to execute the redirect"} {
		if !strings.Contains(complaints, want) {
			t.Errorf("%q is missing in %q", want, complaints)
		}
	}
	if seen < 100 {
		t.Errorf("%d colours", seen)
	}
}

// unframed lets a test frame the page.
type unframed struct{ http.ResponseWriter }

func (u unframed) WriteHeader(code int) {
	u.Header().Del("Content-Security-Policy")
	u.Header().Del("Cross-Origin-Resource-Policy")
	u.ResponseWriter.WriteHeader(code)
}

func (u unframed) Write(b []byte) (int, error) {
	u.Header().Del("Content-Security-Policy")
	u.Header().Del("Cross-Origin-Resource-Policy")
	return u.ResponseWriter.Write(b)
}
