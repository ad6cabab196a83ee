package jointoken

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/model/state"
)

var (
	key   = bytes.Repeat([]byte("k"), MinKeyBytes)
	start = time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)
)

func mint(t testing.TB, key []byte, purpose Purpose, expires time.Time) string {
	t.Helper()
	c := Claims{Purpose: purpose, Role: state.RoleWorker, Expires: expires, ID: "n1"}
	if purpose == Host {
		c.Host = "worker-1"
	}
	token, err := Mint(key, c)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func signed(t testing.TB, method jwt.SigningMethod, key any, claims jwt.Claims) string {
	t.Helper()
	token, err := jwt.NewWithClaims(method, claims).SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestATokenIsGoodForItsPurposeUntilItEnds(t *testing.T) {
	end := start.Add(time.Hour)
	worker := mint(t, key, Config, end)
	other := bytes.Repeat([]byte("o"), MinKeyBytes)
	claims := func(aud Purpose, exp, role, sub any) jwt.MapClaims {
		m := jwt.MapClaims{"aud": string(aud), "role": role, "sub": sub}
		if exp != nil {
			m["exp"] = exp
		}
		return m
	}
	forged := func(method jwt.SigningMethod, key any, c jwt.MapClaims) string { return signed(t, method, key, c) }
	tests := []struct {
		name    string
		token   string
		purpose Purpose
		now     time.Time
		want    error
	}{
		{"its purpose, in time", worker, Config, start, nil},
		{"used again", worker, Config, end.Add(-time.Second), nil},
		{"at its end", worker, Config, end, ErrExpired},
		{"long after", worker, Config, end.Add(24 * time.Hour), ErrExpired},
		{"of an older build", forged(jwt.SigningMethodHS256, key, jwt.MapClaims{"aud": []string{"holdfast-config"}, "role": "worker", "exp": end.Unix(), "jti": "x"}), Config, start, nil},
		{"an admission opens no configuration", mint(t, key, Admission, end), Config, start, ErrInvalid},
		{"a host's own opens no configuration", mint(t, key, Host, end), Config, start, ErrInvalid},
		{"a host's own is no admission", mint(t, key, Host, end), Admission, start, ErrInvalid},
		{"a pointer's is no host's own", worker, Host, start, ErrInvalid},
		{"an admission is no host's own", mint(t, key, Admission, end), Host, start, ErrInvalid},
		{"another purpose, and expired", mint(t, key, Admission, end), Config, end, ErrInvalid},
		{"a host's own of no host", forged(jwt.SigningMethodHS256, key, claims(Host, end.Unix(), "worker", "")), Host, start, ErrInvalid},
		{"no purpose asked", worker, "", start, ErrInvalid},
		{"signed with another key", mint(t, other, Config, end), Config, start, ErrInvalid},
		{"another key and expired", mint(t, other, Config, start), Config, end, ErrInvalid},
		{"unsigned", forged(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, claims(Config, end.Unix(), "worker", "")), Config, start, ErrInvalid},
		{"another hash", forged(jwt.SigningMethodHS512, key, claims(Config, end.Unix(), "worker", "")), Config, start, ErrInvalid},
		{"without end", forged(jwt.SigningMethodHS256, key, claims(Config, nil, "worker", "")), Config, start, ErrInvalid},
		{"without role", forged(jwt.SigningMethodHS256, key, claims(Config, end.Unix(), nil, "")), Config, start, ErrInvalid},
		{"role is a list", forged(jwt.SigningMethodHS256, key, claims(Config, end.Unix(), []string{"worker"}, "")), Config, start, ErrInvalid},
		{"host is a list", forged(jwt.SigningMethodHS256, key, claims(Host, end.Unix(), "worker", []string{"worker-1", "cp-1"})), Host, start, ErrInvalid},
		{"empty", "", Config, start, ErrInvalid},
		{"nonsense", "a.b.c", Config, start, ErrInvalid},
		{"endless", strings.Repeat("a", MaxLength+1), Config, start, ErrInvalid},
		{"cut", worker[:len(worker)-1], Config, start, ErrInvalid},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := Read(key, tt.token, tt.purpose, tt.now); !errors.Is(err, tt.want) {
				t.Errorf("got %v, want %v", err, tt.want)
			}
		})
	}
}

func TestATokenSaysWhatWasMinted(t *testing.T) {
	for _, purpose := range []Purpose{Config, Admission, Host} {
		want := Claims{Purpose: purpose, Role: state.RoleWorker, Host: "worker-1", Expires: start.Add(time.Hour), ID: "abc"}
		token, err := Mint(key, want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Read(key, token, purpose, start)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", purpose, err, diff)
		}
	}
}

func TestATokenOpensItsRoleAndItsHost(t *testing.T) {
	any, own := Claims{Role: state.RoleWorker}, Claims{Role: state.RoleWorker, Host: "worker-1"}
	for _, c := range []struct {
		name   string
		claims Claims
		role   state.Role
		host   string
		want   error
	}{
		{"its role", any, state.RoleWorker, "", nil},
		{"a host of its role", any, state.RoleWorker, "worker-7", nil},
		{"its host", own, state.RoleWorker, "worker-1", nil},
		{"its role, before the host is known", own, state.RoleWorker, "", nil},
		{"another host", own, state.RoleWorker, "worker-2", ErrHost},
		{"another role", any, state.RoleMaster, "", ErrRole},
		{"its host in another role", own, state.RoleMaster, "worker-1", ErrRole},
		{"no role", any, "", "", ErrRole},
	} {
		if err := c.claims.Opens(c.role, c.host); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestAnEmptyKeyOpensNothing(t *testing.T) {
	if _, err := Mint(nil, Claims{Purpose: Config, Role: state.RoleWorker, Expires: start}); err == nil {
		t.Error("minted without a key")
	}
	forged := signed(t, jwt.SigningMethodHS256, []byte{}, jwt.MapClaims{"aud": string(Config), "role": "worker", "exp": start.Add(time.Hour).Unix()})
	if _, err := Read(nil, forged, Config, start); !errors.Is(err, ErrInvalid) {
		t.Errorf("got %v", err)
	}
}

func TestATokenThatSaysTooLittleIsNotMinted(t *testing.T) {
	for _, c := range []Claims{
		{Purpose: Config, Role: state.RoleWorker},
		{Purpose: Config, Expires: start},
		{Role: state.RoleWorker, Expires: start},
		{Purpose: Host, Role: state.RoleWorker, Expires: start},
	} {
		if token, err := Mint(key, c); err == nil {
			t.Errorf("%+v: minted %s", c, token)
		}
	}
}

func FuzzReadTakesOnlyWhatWasMinted(f *testing.F) {
	good := mint(f, key, Config, start.Add(time.Hour))
	f.Add(good)
	f.Add(good + "A")
	f.Add("../..")
	f.Fuzz(func(t *testing.T, token string) {
		_, err := Read(key, token, Config, start)
		if (err == nil) != (token == good) {
			t.Errorf("token %q: %v", token, err)
		}
		if err != nil && token != "" && strings.Contains(err.Error(), token) && len(token) > 20 {
			t.Errorf("the error tells the token: %v", err)
		}
	})
}
