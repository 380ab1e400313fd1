import java.io.BufferedReader;
import java.io.IOException;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.lucene.analysis.core.WhitespaceAnalyzer;
import org.apache.lucene.document.Document;
import org.apache.lucene.document.Field;
import org.apache.lucene.document.FieldType;
import org.apache.lucene.index.IndexOptions;
import org.apache.lucene.index.Term;
import org.apache.lucene.monitor.MatchingQueries;
import org.apache.lucene.monitor.Monitor;
import org.apache.lucene.monitor.MonitorConfiguration;
import org.apache.lucene.monitor.MonitorQuery;
import org.apache.lucene.monitor.MultipassTermFilteredPresearcher;
import org.apache.lucene.monitor.Presearcher;
import org.apache.lucene.monitor.QueryMatch;
import org.apache.lucene.monitor.TermFilteredPresearcher;
import org.apache.lucene.monitor.TermWeightor;
import org.apache.lucene.search.BooleanClause;
import org.apache.lucene.search.BooleanQuery;
import org.apache.lucene.search.Query;
import org.apache.lucene.search.TermQuery;

/**
 * Standing queries in Lucene's Monitor: which of them each of many documents satisfies, and what that takes.
 *
 * <p>Arguments: QUERIES DOCUMENTS SAMPLE MATCHES PASSES WEIGHTS ROUNDS. Fields are separated by tabs. A line of QUERIES
 * is a number and then a field and a term by turns, all of which a document has to have. A line of DOCUMENTS is a field
 * and its terms, separated by blanks, by turns. SAMPLE has documents that are not matched: how many have a term is what
 * the weights "rarity" go by; the weights "length" are Lucene's own. PASSES is 1 for the presearcher that files a query
 * by one term, more for the one that files it by several.
 *
 * <p>Everything is done by one thread, and all documents are matched ROUNDS times. Prints what was measured, a name and
 * a value a line; "round" is nanoseconds of processor time of that thread alone, which leaves out the compiler and the
 * collector of garbage. MATCHES is written: a line for each document, the numbers of its queries in ascending order.
 */
final class StandingQueries {
  private static final FieldType TERMS = new FieldType();

  static {
    TERMS.setIndexOptions(IndexOptions.DOCS); // neither positions nor scores are asked for
    TERMS.setTokenized(true);
    TERMS.setOmitNorms(true);
    TERMS.freeze();
  }

  private static final int AT_ONCE = 10_000; // queries registered by one call

  public static void main(String[] arguments) throws IOException {
    Path queries = Path.of(arguments[0]);
    List<String[]> documents = rows(Path.of(arguments[1]));
    TermWeightor weights =
        arguments[5].equals("rarity") ? rarity(rows(Path.of(arguments[2]))) : TermFilteredPresearcher.DEFAULT_WEIGHTOR;
    int passes = Integer.parseInt(arguments[4]);
    Presearcher presearcher =
        passes == 1
            ? new TermFilteredPresearcher(weights, List.of(), Set.of())
            : new MultipassTermFilteredPresearcher(passes, 0, weights, List.of(), Set.of());
    ThreadMXBean clock = ManagementFactory.getThreadMXBean();
    try (Monitor monitor = new Monitor(new WhitespaceAnalyzer(), presearcher, new MonitorConfiguration())) {
      System.out.println("insertion\t" + register(monitor, queries, clock));
      System.out.println("queries\t" + monitor.getQueryCount());
      System.gc();
      Runtime runtime = Runtime.getRuntime();
      System.out.println("heap\t" + (runtime.totalMemory() - runtime.freeMemory()));
      int rounds = Integer.parseInt(arguments[6]);
      long run = 0;
      List<List<String>> found = List.of();
      for (int round = 0; round < rounds; round++) {
        found = new ArrayList<>(documents.size());
        run = 0;
        long started = clock.getCurrentThreadCpuTime();
        for (String[] row : documents) {
          MatchingQueries<QueryMatch> matching = monitor.match(document(row), QueryMatch.SIMPLE_MATCHER);
          List<String> numbers = new ArrayList<>(matching.getMatchCount());
          for (QueryMatch match : matching.getMatches()) {
            numbers.add(match.getQueryId());
          }
          found.add(numbers);
          run += matching.getQueriesRun();
        }
        System.out.println("round\t" + (clock.getCurrentThreadCpuTime() - started));
      }
      System.out.println("run\t" + run);
      write(Path.of(arguments[3]), found);
    }
  }

  /** Files all queries, and returns the nanoseconds of processor time that it took. */
  private static long register(Monitor monitor, Path queries, ThreadMXBean clock) throws IOException {
    long spent = 0;
    List<MonitorQuery> waiting = new ArrayList<>(AT_ONCE);
    try (BufferedReader lines = Files.newBufferedReader(queries)) {
      for (String line = lines.readLine(); line != null; line = lines.readLine()) {
        String[] row = line.split("\t");
        waiting.add(new MonitorQuery(row[0], query(row)));
        if (waiting.size() == AT_ONCE) {
          spent += registerAll(monitor, waiting, clock);
        }
      }
    }
    return spent + registerAll(monitor, waiting, clock);
  }

  private static long registerAll(Monitor monitor, List<MonitorQuery> waiting, ThreadMXBean clock) throws IOException {
    long started = clock.getCurrentThreadCpuTime();
    monitor.register(waiting);
    waiting.clear();
    return clock.getCurrentThreadCpuTime() - started;
  }

  private static Query query(String[] row) {
    if (row.length == 3) {
      return new TermQuery(new Term(row[1], row[2]));
    }
    BooleanQuery.Builder all = new BooleanQuery.Builder();
    for (int at = 1; at < row.length; at += 2) {
      all.add(new TermQuery(new Term(row[at], row[at + 1])), BooleanClause.Occur.FILTER);
    }
    return all.build();
  }

  private static Document document(String[] row) {
    Document document = new Document();
    for (int at = 0; at < row.length; at += 2) {
      document.add(new Field(row[at], row[at + 1], TERMS));
    }
    return document;
  }

  /** Weighs a term the more, the fewer documents of a sample have it in its field. */
  private static TermWeightor rarity(List<String[]> sample) {
    Map<Term, Integer> seen = new HashMap<>();
    for (String[] row : sample) {
      Set<Term> terms = new HashSet<>();
      for (int at = 0; at < row.length; at += 2) {
        for (String word : row[at + 1].split(" ")) {
          terms.add(new Term(row[at], word));
        }
      }
      terms.forEach(term -> seen.merge(term, 1, Integer::sum));
    }
    return term -> 1.0 / (1 + seen.getOrDefault(term, 0));
  }

  private static List<String[]> rows(Path path) throws IOException {
    List<String[]> rows = new ArrayList<>();
    for (String line : Files.readAllLines(path)) {
      rows.add(line.split("\t", -1));
    }
    return rows;
  }

  private static void write(Path path, List<List<String>> found) throws IOException {
    try (PrintStream out = new PrintStream(Files.newOutputStream(path), false, StandardCharsets.UTF_8)) {
      for (List<String> numbers : found) {
        StringBuilder line = new StringBuilder();
        numbers.stream().mapToInt(Integer::parseInt).sorted().forEach(number -> line.append(' ').append(number));
        out.println(line.toString().strip());
      }
    }
  }
}
