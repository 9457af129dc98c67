// A GCS server for the tests: fake-gcs-server, together with the requests of GCS's XML API that it
// lacks. Each of these is handed to it as the request of the JSON API that means the same; what is
// stored, which generation an object has and who wins a race is decided by fake-gcs-server alone.
package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"encoding/xml"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sort"
	"strconv"
	"strings"
	"sync"

	"github.com/fsouza/fake-gcs-server/fakestorage"
)

// Names in one answer to a list request: few, so that the tests see listings of several pages.
const page = 5

func main() {
	address := flag.String("address", "", "where to listen, such as 127.0.0.1:4443")
	careless := flag.Bool("careless", false, "overwrite objects whatever the condition of a put")
	token := flag.String("token", "", "the token that writes need, and that reads have if they have any")
	flag.Parse()
	fake, err := fakestorage.NewServerWithOptions(fakestorage.Options{
		NoListener:  true,
		ExternalURL: "http://" + *address,
		PublicHost:  *address,
	})
	if err != nil {
		log.Fatal(err)
	}
	server := &server{
		fake:     fake.HTTPHandler(),
		careless: *careless,
		token:    *token,
		uploads:  map[string]map[int][]byte{},
	}
	log.Fatal(http.ListenAndServe(*address, server))
}

type server struct {
	fake     http.Handler
	careless bool
	token    string
	mutex    sync.Mutex
	uploads  map[string]map[int][]byte // the parts of each upload, by their numbers
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if status := s.refusal(r); status != 0 {
		fail(w, status, codes[status], "These credentials may not do this.")
		return
	}
	bucket, object, _ := strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/")
	switch bucket {
	case "storage", "upload", "download", "batch", "_internal":
		s.fake.ServeHTTP(w, r)
		return
	}
	bucket, object = unescaped(bucket), unescaped(object)
	query := r.URL.Query()
	upload := query.Get("uploadId")
	if s.ask(r, http.MethodGet, "/storage/v1/b/"+url.PathEscape(bucket), nil, nil).Code != http.StatusOK {
		fail(w, http.StatusNotFound, "NoSuchBucket", "The specified bucket does not exist.")
		return
	}
	switch {
	case object == "" && r.Method == http.MethodGet:
		s.list(w, r, bucket, query)
	case object == "":
		fail(w, http.StatusMethodNotAllowed, "MethodNotAllowed", "Only listings are served here.")
	case r.Header.Get("x-goog-copy-source") != "":
		fail(w, http.StatusNotImplemented, "NotImplemented", "Copies are not served here.")
	case r.Method == http.MethodGet, r.Method == http.MethodHead:
		r.URL.RawPath = "/download/storage/v1" + path(bucket, object)
		r.URL.Path = unescaped(r.URL.RawPath)
		s.fake.ServeHTTP(w, r)
	case r.Method == http.MethodDelete && upload != "":
		s.forget(upload)
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodDelete:
		answer := s.ask(r, http.MethodDelete, "/storage/v1"+path(bucket, object), nil, nil)
		if answer.Code == http.StatusOK {
			answer.Code = http.StatusNoContent
		}
		finish(w, answer, "")
	case r.Method == http.MethodPut && upload != "":
		s.part(w, r, upload, query.Get("partNumber"))
	case r.Method == http.MethodPut:
		data, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		finish(w, s.put(r, bucket, object, data), "")
	case r.Method == http.MethodPost && query.Has("uploads"):
		s.begin(w, bucket, object)
	case r.Method == http.MethodPost && upload != "":
		s.complete(w, r, bucket, object, upload)
	default:
		fail(w, http.StatusMethodNotAllowed, "MethodNotAllowed", "There is no such request.")
	}
}

// refusal is the status of a request that its credentials do not allow; 0 for others.
func (s *server) refusal(r *http.Request) int {
	given := r.Header.Get("Authorization")
	switch {
	case s.token == "" || given == "Bearer "+s.token:
		return 0
	case given != "":
		return http.StatusUnauthorized
	case r.Method == http.MethodGet || r.Method == http.MethodHead:
		return 0
	default:
		return http.StatusForbidden
	}
}

// put creates or replaces an object, under the condition that the request has, if any.
func (s *server) put(r *http.Request, bucket, object string, data []byte) *httptest.ResponseRecorder {
	query := url.Values{"uploadType": {"media"}, "name": {object}}
	if wanted := r.Header.Get("x-goog-if-generation-match"); wanted != "" && !s.careless {
		query.Set("ifGenerationMatch", wanted)
	}
	return s.ask(r, http.MethodPost, "/upload/storage/v1"+path(bucket, ""), query, data)
}

type listed struct {
	Items    []item   `json:"items"`
	Prefixes []string `json:"prefixes"`
}

type item struct {
	Name       string `json:"name"`
	Size       string `json:"size"`
	Updated    string `json:"updated"`
	Etag       string `json:"etag"`
	Generation string `json:"generation"`
}

type listing struct {
	XMLName        xml.Name `xml:"ListBucketResult"`
	Name           string
	Prefix         string
	IsTruncated    bool
	Next           string `xml:"NextContinuationToken,omitempty"`
	Contents       []content
	CommonPrefixes []common
}

type content struct {
	Key, Generation, LastModified, ETag, Size string
}

type common struct {
	Prefix string
}

// list answers one page: names after the token, where all names below a prefix count as one.
func (s *server) list(w http.ResponseWriter, r *http.Request, bucket string, query url.Values) {
	asked := url.Values{"prefix": {query.Get("prefix")}, "delimiter": {query.Get("delimiter")}}
	answer := s.ask(r, http.MethodGet, "/storage/v1"+path(bucket, ""), asked, nil)
	var found listed
	if answer.Code != http.StatusOK || json.Unmarshal(answer.Body.Bytes(), &found) != nil {
		finish(w, answer, "")
		return
	}
	items := map[string]item{}
	names := found.Prefixes
	for _, one := range found.Items {
		items[one.Name] = one
		names = append(names, one.Name)
	}
	sort.Strings(names)
	after := max(query.Get("start-after"), query.Get("continuation-token"))
	result := listing{Name: bucket, Prefix: query.Get("prefix")}
	count := 0
	for _, name := range names {
		if name <= after {
			continue
		}
		if count == page {
			result.IsTruncated = true
			break
		}
		count++
		result.Next = name
		if one, ok := items[name]; ok {
			row := content{one.Name, one.Generation, one.Updated, quoted(one.Etag), one.Size}
			result.Contents = append(result.Contents, row)
		} else {
			result.CommonPrefixes = append(result.CommonPrefixes, common{name})
		}
	}
	if !result.IsTruncated {
		result.Next = ""
	}
	say(w, result)
}

type begun struct {
	XMLName               xml.Name `xml:"InitiateMultipartUploadResult"`
	Bucket, Key, UploadId string
}

func (s *server) begin(w http.ResponseWriter, bucket, object string) {
	id := rand.Text()
	s.mutex.Lock()
	s.uploads[id] = map[int][]byte{}
	s.mutex.Unlock()
	say(w, begun{Bucket: bucket, Key: object, UploadId: id})
}

func (s *server) part(w http.ResponseWriter, r *http.Request, upload, number string) {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	place, err := strconv.Atoi(number)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	parts, known := s.uploads[upload]
	if !known || err != nil || place < 1 {
		fail(w, http.StatusNotFound, "NoSuchUpload", "There is no such upload.")
		return
	}
	parts[place] = data
	w.Header().Set("ETag", fmt.Sprintf("\"part-%d\"", place))
}

type parts struct {
	Part []struct {
		PartNumber int
		ETag       string
	}
}

type completed struct {
	XMLName           xml.Name `xml:"CompleteMultipartUploadResult"`
	Bucket, Key, ETag string
}

// complete puts the parts that the request names, in that order, as one object.
func (s *server) complete(w http.ResponseWriter, r *http.Request, bucket, object, upload string) {
	var named parts
	if xml.NewDecoder(r.Body).Decode(&named) != nil || len(named.Part) == 0 {
		fail(w, http.StatusBadRequest, "MalformedXML", "No parts are named.")
		return
	}
	s.mutex.Lock()
	known := s.uploads[upload]
	var data bytes.Buffer
	for _, one := range named.Part {
		part, ok := known[one.PartNumber]
		if !ok || one.ETag != fmt.Sprintf("\"part-%d\"", one.PartNumber) {
			s.mutex.Unlock()
			fail(w, http.StatusBadRequest, "InvalidPart", "There is no such part.")
			return
		}
		data.Write(part)
	}
	s.mutex.Unlock()
	answer := s.put(r, bucket, object, data.Bytes())
	if answer.Code == http.StatusOK {
		s.forget(upload)
		answer.Header().Set("Content-Type", "application/xml")
	}
	var made item
	_ = json.Unmarshal(answer.Body.Bytes(), &made)
	body, _ := xml.Marshal(completed{Bucket: bucket, Key: object, ETag: quoted(made.Etag)})
	finish(w, answer, string(body))
}

func (s *server) forget(upload string) {
	s.mutex.Lock()
	delete(s.uploads, upload)
	s.mutex.Unlock()
}

// ask hands a request to fake-gcs-server and returns what it says.
func (s *server) ask(
	r *http.Request, method, path string, query url.Values, data []byte,
) *httptest.ResponseRecorder {
	asked := httptest.NewRequestWithContext(
		r.Context(), method, "http://"+r.Host+path+"?"+query.Encode(), bytes.NewReader(data),
	)
	asked.Header = r.Header.Clone()
	asked.Header.Set("Content-Length", strconv.Itoa(len(data)))
	answer := httptest.NewRecorder()
	s.fake.ServeHTTP(answer, asked)
	return answer
}

var codes = map[int]string{
	http.StatusBadRequest:         "InvalidArgument",
	http.StatusUnauthorized:       "AuthenticationRequired",
	http.StatusForbidden:          "AccessDenied",
	http.StatusNotFound:           "NoSuchKey",
	http.StatusPreconditionFailed: "PreconditionFailed",
}

// finish says in the XML API's words what a request of the JSON API came to.
func finish(w http.ResponseWriter, answer *httptest.ResponseRecorder, body string) {
	if answer.Code >= http.StatusBadRequest {
		code, known := codes[answer.Code]
		if !known {
			code = "InternalError"
		}
		fail(w, answer.Code, code, strings.TrimSpace(answer.Body.String()))
		return
	}
	var made item
	if json.Unmarshal(answer.Body.Bytes(), &made) == nil && made.Generation != "" {
		w.Header().Set("ETag", quoted(made.Etag))
		w.Header().Set("x-goog-generation", made.Generation)
	}
	w.WriteHeader(answer.Code)
	_, _ = io.WriteString(w, body)
}

func fail(w http.ResponseWriter, status int, code, why string) {
	body, _ := xml.Marshal(struct {
		XMLName       xml.Name `xml:"Error"`
		Code, Message string
	}{Code: code, Message: why})
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

func say(w http.ResponseWriter, result any) {
	body, err := xml.Marshal(result)
	if err != nil {
		fail(w, http.StatusInternalServerError, "InternalError", err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/xml")
	_, _ = w.Write(body)
}

func path(bucket, object string) string {
	found := "/b/" + url.PathEscape(bucket) + "/o"
	if object == "" {
		return found
	}
	return found + "/" + url.PathEscape(object)
}

func quoted(tag string) string {
	return `"` + strings.Trim(tag, `"`) + `"`
}

func unescaped(text string) string {
	found, err := url.PathUnescape(text)
	if err != nil {
		return text
	}
	return found
}
